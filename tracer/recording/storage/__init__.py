"""What calls do to memory: unwritten memory that is read, writes that overlap, addresses that leave."""
