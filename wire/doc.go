// Package wire holds the forms in which the HTTP API writes and reads: the bodies of /v1, as JSON. It is shared by package
// httpapi, which serves them, and package client. Tags doc, enum, minimum and their like become the OpenAPI document.
package wire
