# The container image: the program, nft, and the libraries of both; injector/image-root says which.
#
#   docker build -t outrigger .
FROM rust:1.95-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake nftables \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked \
 && injector/image-root target/release/outrigger /image

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
ENTRYPOINT ["/outrigger"]
