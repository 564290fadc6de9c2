// Package httpapi is the HTTP API of one node: /v1, its problems, its OpenAPI document, the stream of events and the worker
// protocol. It holds no rule: a handler reads a view or calls the engine, and says what came of it.
//
// Who may do what is decided by where a request comes from and by its token: see Tokens. What can go wrong is an RFC 9457
// problem whose code has a page (problems/), which names the fix.
package httpapi
