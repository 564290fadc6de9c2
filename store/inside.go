package store

import "context"

// inside is the key under which a context says that it is that of a transaction of a database.
type inside struct{ db any }

// Inside marks the context of a transaction that holds the write lock of a store; db is what the store knows it by. A Write
// of that store under such a context would wait for its own caller, so it is refused with ErrInTransaction.
func Inside(ctx context.Context, db any) context.Context {
	return context.WithValue(ctx, inside{db}, true)
}

// IsInside reports a context that was marked for db.
func IsInside(ctx context.Context, db any) bool { return ctx.Value(inside{db}) != nil }
