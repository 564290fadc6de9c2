# Each target is one command. .ci/run is all of them.

.PHONY: test race vet lint demo bench build docs

test:
	go test ./...

race:
	bash .ci/race

vet:
	go vet ./...

lint:
	go tool -modfile=tools/go.mod golangci-lint run

demo:
	go run ./cmd/demo

bench:
	go test -run '^$$' -bench . -benchtime 5x ./node ./store/sqlite

# Every bug of the list in testfixtures/mutants, one after the other. It takes more than an hour.
.PHONY: mutants
mutants:
	go test ./sim -run '^TestMutants$$' -v -timeout 0 -mutants
	go test ./crash -run '^TestTheMatrixFindsPlantedBugs$$' -mutants

# Ten minutes of worlds that no other test has seen, with the race detector, the large configurations of the model, and a
# death at every boundary of what a demo has left.
.PHONY: soak
soak:
	go test -race ./sim -run '^TestSoak$$' -v -timeout 30m -soak $(or $(SOAK),10m)
	go test ./sim/model -run '^TestTheRulesHoldInLarge$$' -v -timeout 60m -large
	go test ./cmd/demo -run '^TestEveryCrashRecovers$$' -everywhere

# The printed parts of the documents. Read what changed before you commit it.
docs:
	go test ./docs -rewrite

# Static binaries: no cgo, no paths of the machine that built them.
build: dist/demo-linux-amd64 dist/demo-linux-arm64 dist/demo-linux-arm7

.PHONY: dist/demo-linux-amd64 dist/demo-linux-arm64 dist/demo-linux-arm7

dist/demo-linux-amd64:
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -ldflags='-s -w' -o $@ ./cmd/demo

dist/demo-linux-arm64:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -ldflags='-s -w' -o $@ ./cmd/demo

dist/demo-linux-arm7:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm GOARM=7 go build -trimpath -ldflags='-s -w' -o $@ ./cmd/demo
