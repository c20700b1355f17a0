"""Conversion between plain data and checked jobs and clusters."""

from gpusquad.model.cluster_codec import cluster_from_dict, cluster_to_dict
from gpusquad.model.job_codec import job_from_dict, job_to_dict

__all__ = ["cluster_from_dict", "cluster_to_dict", "job_from_dict", "job_to_dict"]
