module github.com/latchkey-go/latchkey/examples

go 1.26.0

replace github.com/latchkey-go/latchkey => ../
