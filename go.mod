module github.com/towline-dev/towline

go 1.26.0

require (
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
)
