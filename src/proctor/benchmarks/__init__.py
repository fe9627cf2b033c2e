"""One module or package per benchmark; nothing else knows a benchmark's name."""
