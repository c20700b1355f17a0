"""One module for each convention by which pods form groups. The names of labels and fields are those of other
projects."""
