package relay

// Share is tested in every proportion.
var Share = share
