"""Jobs that were submitted to us, made into objects of the cluster. From then on they are like anybody else's."""
