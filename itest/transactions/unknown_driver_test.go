//go:build unix

package transactions

import (
	"context"
	"database/sql/driver"
	"errors"
)

// unknownConnector is a database that nobody has heard of.
type unknownConnector struct{}

func (unknownConnector) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("no such database")
}
func (unknownConnector) Driver() driver.Driver { return unknownDriver{} }

type unknownDriver struct{}

func (unknownDriver) Open(string) (driver.Conn, error) { return nil, errors.New("no such database") }
