// Command rescind-authorizer follows the revocations of a Rescind service, and answers checks of
// local programs in any language.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	rescind "github.com/rescind/rescind/infra/clients/go"
)

const usage = `usage: rescind-authorizer COMMAND [OPTIONS]

  serve            answer GET /v1/revocations/check?warrant_id=… from memory, until Ctrl-C
  check ID…        print the verdict on a chain of warrants: exit code 0 is clear, 3 revoked, 4 stale
  conformance      answer the requests of the conformance suite on standard input
  version          print the version

The options are those of "rescind-authorizer serve -h". The API key is read from RESCIND_API_KEY.
`

func main() {
	code, err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rescind-authorizer:", err)
	}
	os.Exit(code)
}

func run(arguments []string, stdin io.Reader, stdout io.Writer) (int, error) {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch command, rest := arguments[0], arguments[1:]; command {
	case "serve":
		return serve(ctx, rest, stdout)
	case "check":
		return check(ctx, rest, stdout)
	case "conformance":
		return exit(rescind.Conformance(stdin, stdout))
	case "-h", "-help", "--help", "help":
		_, err := fmt.Fprint(stdout, usage)
		return exit(err)
	case "version":
		_, err := fmt.Fprintln(stdout, rescind.Version)
		return exit(err)
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2, fmt.Errorf("there is no command %q", command)
	}
}

func exit(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// options returns the options that all commands share.
func options(name string) (*flag.FlagSet, *rescind.Options) {
	flags, chosen := flag.NewFlagSet(name, flag.ContinueOnError), &rescind.Options{APIKey: os.Getenv("RESCIND_API_KEY")}
	flags.StringVar(&chosen.URL, "url", os.Getenv("RESCIND_URL"), "address of the service (or RESCIND_URL)")
	flags.StringVar(&chosen.Tenant, "tenant", os.Getenv("RESCIND_TENANT"), "the tenant's identifier (or RESCIND_TENANT)")
	flags.StringVar(&chosen.TrustPin, "trust-pin", os.Getenv("RESCIND_TRUST_PIN"),
		"pin of the trust root, as printed by \"rescind trust show\" (or RESCIND_TRUST_PIN)")
	flags.StringVar(&chosen.StateDir, "state-dir", os.Getenv("RESCIND_STATE_DIR"),
		"folder of the saved state (or RESCIND_STATE_DIR)")
	flags.DurationVar(&chosen.MaxStaleness, "max-staleness", 30*time.Second,
		"how long after the last confirmation a warrant can be clear")
	flags.BoolVar(&chosen.AllowHTTP, "allow-http", false, "send the API key without TLS")
	flags.StringVar(&chosen.Name, "name", "", "name in reports (default: the host name)")
	flags.BoolVar(&chosen.NoReports, "no-report", false, "do not report the current feed entry to the service")
	return flags, chosen
}

func serve(ctx context.Context, arguments []string, stdout io.Writer) (int, error) {
	flags, chosen := options("serve")
	listen := flags.String("listen", "127.0.0.1:9191", "address for checks; it answers everyone who can reach it")
	if err := flags.Parse(arguments); err != nil {
		return 2, err
	}
	client, err := rescind.New(*chosen)
	if err != nil {
		return 1, err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return 1, err
	}
	server := rescind.NewServer(client)
	go func() {
		// Run returns when the context ends.
		_ = client.Run(ctx)
		ending, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = server.Shutdown(ending)
	}()
	fmt.Fprintf(stdout, "listening on %s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return 1, err
	}
	return 0, nil
}

func check(ctx context.Context, arguments []string, stdout io.Writer) (int, error) {
	flags, chosen := options("check")
	if err := flags.Parse(arguments); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 {
		return 2, errors.New("name the warrants of a chain, from the root to the leaf")
	}
	// A single check enforces no warrants, so it sends no heartbeats.
	chosen.NoReports = true
	if chosen.StateDir == "" {
		folder, err := os.MkdirTemp("", "rescind-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(folder)
		chosen.StateDir = folder
	}
	client, err := rescind.New(*chosen)
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	go func() { _ = client.Run(ctx) }()
	if err := client.Ready(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	verdict, err := client.Check(flags.Args()...)
	if err != nil {
		return 2, err
	}
	_, err = fmt.Fprintln(stdout, verdict)
	return map[rescind.Verdict]int{rescind.Clear: 0, rescind.Revoked: 3, rescind.Stale: 4}[verdict], err
}
