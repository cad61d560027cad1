// Command rescind-authorizer answers from memory which warrants are revoked.
package main

import (
	"os"

	rescind "github.com/rescind/rescind/infra/clients/go"
)

func main() {
	if err := rescind.Conformance(os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}
