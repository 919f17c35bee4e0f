.PHONY: up down cluster-status

up: ## bring the test cluster up (or what is missing of it)
	@go run ./test/cluster up

down: ## take the test cluster down, and leave nothing behind
	@go run ./test/cluster down

cluster-status: ## say what of the test cluster runs
	@go run ./test/cluster status
