module github.com/sluice-dev/sluice/test/cluster/prometheus

go 1.26.0
