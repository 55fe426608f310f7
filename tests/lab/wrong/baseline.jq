# The Service was answered by a Pod of somebody else.
(.services[] | select(.name == "checkout") | .answeredBy.ours) = false
