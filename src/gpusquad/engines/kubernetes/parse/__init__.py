"""From what users write to what is decided on: pods to gangs. Pure functions over JSON; nothing is fetched."""
