"""What is read in the graphs that AOTAutograd handed over: calls, facts, distinct numbers, unwritten memory."""
