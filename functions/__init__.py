"""What is deployed: each folder is one Lambda function, and speaks HTTP only."""
