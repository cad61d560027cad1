module github.com/rescind/rescind/infra/clients/go

go 1.19
