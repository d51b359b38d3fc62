"""Every verb beside every other, beside itself, and beside a job: one stands still while the rest runs."""
