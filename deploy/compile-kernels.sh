#!/bin/sh
# Masks generated events with the configurations of the image, so that the image has their ontology and compiled kernels.
set -eu
export PATH="$1/bin:$PATH" STREAM_MASKER__SECRET__ENV=BUILD_SECRET BUILD_SECRET="of the build only"

# compile CONFIGURATION: calibrates and masks.
compile() {
  stream-masker produce --config "$1" --synthetic 3000 --out events.jsonl
  stream-masker mask --config "$1" events.jsonl >/dev/null
}

compile "$1/configurations/image.yaml"
compile "$1/configurations/image-flat.yaml"
STREAM_MASKER__MECHANISM__NAME=semantic_noise compile "$1/configurations/image.yaml"
