"""On which cards. A place is ``propose(job, trial)``: it fills the trial, or says why it could not."""
