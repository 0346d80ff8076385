package latchkey

// Golden is golden for the tests of the public API.
var Golden = golden
