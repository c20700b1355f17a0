"""Cards that several jobs share: sharing parameters, memory quotas, interference and SLOs."""
