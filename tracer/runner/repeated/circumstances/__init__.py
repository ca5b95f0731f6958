"""What an arm changes in a process before the script's first line: its clock, its host, who comes first, its memory."""
