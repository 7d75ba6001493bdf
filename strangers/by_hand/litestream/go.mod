module lease

go 1.25

require github.com/benbjohnson/litestream v0.5.18
