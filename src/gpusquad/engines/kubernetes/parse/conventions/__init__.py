"""One file for each way in which people say that pods belong together. Labels and fields are other projects' facts."""
