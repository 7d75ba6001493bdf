#!/bin/sh
# OpenTofu: `apply.sh BUCKET NAME` adds the resource NAME to the state in the bucket, under the backend's lock file.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.tf <<END
terraform {
  backend "s3" {
    bucket                      = "$1"
    key                         = "state"
    region                      = "us-east-1"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
    skip_metadata_api_check     = true
    skip_region_validation      = true
    endpoints                   = { s3 = "$AWS_ENDPOINT_URL" }
  }
}
resource "terraform_data" "$2" {
  input = "$2"
}
END
tofu init -no-color -input=false
tofu apply -no-color -auto-approve -input=false
