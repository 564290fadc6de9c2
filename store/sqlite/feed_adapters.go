package sqlite

import (
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
)

const (
	feedPage = 100   // events that are read at once, and that come again after a kill at most
	feedLook = 2_000 // events that are looked at for those of the chosen types, in one query
)

// feedSchema is how an event is read from the log. The topic is read only: what is written to the log is decided.
type feedSchema struct{ *follower }

var _ wsql.SchemaAdapter = feedSchema{}

var errReadOnly = errors.New("nothing is published to the log: use the engine, or sqlite.Outbox for a message")

func (feedSchema) InsertQuery(wsql.InsertQueryParams) (wsql.Query, error) {
	return wsql.Query{}, errReadOnly
}

func (feedSchema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil // a migration has made the tables
}

func (feedSchema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelDefault }

// SelectQuery is one page behind the place of the group. Positions are dense, so what it looks at is bounded by a
// position, also where nothing of the chosen types lies.
func (f feedSchema) SelectQuery(wsql.SelectQueryParams) (wsql.Query, error) {
	return wsql.Query{Query: selectFeed(f.options.Types), Args: []any{int64(f.place), int64(f.until), feedPage}}, nil
}

func selectFeed(types []events.Type) string {
	chosen := ""
	if types != nil {
		numbers := make([]string, len(types))
		for i, t := range types {
			numbers[i] = strconv.Itoa(int(t))
		}
		chosen = ` AND type IN (` + strings.Join(numbers, ", ") + `)`
	}
	return `SELECT ` + columns + ` FROM events WHERE position > $1 AND position <= $2` + chosen + ` ORDER BY position LIMIT $3`
}

func (f feedSchema) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	var e events.Envelope
	if err := params.Row.Scan(&e); err != nil {
		return wsql.Row{}, err
	}
	m, err := feed.Message(f.names.id(e.Position), f.names.source(e.Position), e)
	if err != nil {
		return wsql.Row{}, err
	}
	return wsql.Row{Offset: int64(e.Position), UUID: []byte(m.UUID), Payload: m.Payload, Msg: m}, nil
}

// feedOffsets is how the place of a group is kept.
type feedOffsets struct{ *follower }

var _ wsql.OffsetsAdapter = feedOffsets{}

// updateGroup never moves a place back.
const updateGroup = `UPDATE feed_groups SET position = $2 WHERE name = $1 AND position < $2`

// AckMessageQuery goes by the last row that was acknowledged. Rows is all that was read, acknowledged or not.
func (f feedOffsets) AckMessageQuery(params wsql.AckMessageQueryParams) (wsql.Query, error) {
	f.place = max(f.place, events.Position(params.LastRow.Offset))
	return f.placeQuery(), nil
}

// bookEvery is how old the place on disk may get while a page is being handled.
const bookEvery = time.Second

// ConsumedMessageQuery comes before each message. All in front of it is acknowledged, and is booked now and then, so that
// a kill does not bring back a whole page of slow work.
func (f feedOffsets) ConsumedMessageQuery(params wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	f.place, f.last = max(f.place, events.Position(params.Row.Offset)-1), params.Row
	f.delivered.Store(nil)
	if !f.owesBook(bookEvery) {
		return wsql.Query{}, nil
	}
	return f.placeQuery(), nil
}

func (f *follower) placeQuery() wsql.Query {
	return wsql.Query{Query: updateGroup, Args: []any{f.group, int64(f.place)}}
}

func (f feedOffsets) NextOffsetQuery(params wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{Query: selectGroup, Args: []any{params.ConsumerGroup}}, nil
}

func (feedOffsets) SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// BeforeSubscribingQueries: Subscribe has made the group.
func (feedOffsets) BeforeSubscribingQueries(wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}
