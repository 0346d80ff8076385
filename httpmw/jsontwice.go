package httpmw

import (
	"bytes"
	"encoding/json"
	"errors"
)

var errTwice = errors.New("is not the JSON that is expected here: an object has a member twice")

// oneOfEach refuses JSON in which an object has two members of one name: some readers take the first of them and some the
// last, so that the lock and the handler might see different ones. content has been decoded before, so it is valid and
// not too deep.
func oneOfEach(content []byte) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	return objects(d)
}

// objects looks at the next value.
func objects(d *json.Decoder) error {
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') && open != json.Delim('[') {
		return nil
	}
	seen := make(map[string]bool)
	for d.More() {
		if open == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text, _ := name.(string)
			if seen[text] {
				return errTwice
			}
			seen[text] = true
		}
		if err := objects(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end
	return err
}
