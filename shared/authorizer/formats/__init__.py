"""The formats that the service and its clients share. They import nothing outside this folder."""
