"""What users see on their pods: events, the condition that says why a pod waits, and the node it is promised."""
