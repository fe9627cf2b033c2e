"""Where attempts and gradings take place: in this process (`local`), or on the nodes of a cluster (`ray`)."""
