"""The provider ``local``: models that run on this machine, by llama.cpp in a process of its own."""
