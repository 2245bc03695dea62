"""LangGraph's graphs as graphs of ours: the only place that knows LangGraph."""
