module github.com/latchkey-go/latchkey/itest

go 1.26.0

replace github.com/latchkey-go/latchkey => ../
