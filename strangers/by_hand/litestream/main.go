// Litestream's lease: `lease URL OWNER` acquires it, renews it twice and releases it.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	lease "github.com/benbjohnson/litestream/s3"
)

func main() {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	leaser := lease.NewLeaser()
	leaser.Bucket, leaser.Owner = strings.TrimPrefix(os.Args[1], "s3://"), os.Args[2]
	leaser.SetClient(s3.NewFromConfig(settings, func(o *s3.Options) {
		o.UsePathStyle = true
		o.BaseEndpoint = aws.String(os.Getenv("AWS_ENDPOINT_URL"))
	}))
	held, err := leaser.AcquireLease(ctx)
	for i := 0; err == nil && i < 2; i++ {
		held, err = leaser.RenewLease(ctx, held)
	}
	if err == nil {
		err = leaser.ReleaseLease(ctx, held)
	}
	if err != nil {
		log.Fatal(err)
	}
}
