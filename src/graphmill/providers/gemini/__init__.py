"""The generateContent of Gemini."""
