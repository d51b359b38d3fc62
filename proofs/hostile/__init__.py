"""What somebody hostile may write, answer or lay in the way: nothing of it is obeyed."""
