#!/bin/sh
# Makes the keys and certificates of this directory anew. Needs openssl 1.1.1 or newer.
set -eu

# A fixed beginning in the past: tests must not depend on the clock of whoever made the certificates.
FROM=20200101000000Z
UNTIL=21200101000000Z
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/ca.conf" <<CONF
[ca]
default_ca = tests
[tests]
new_certs_dir = $work
database = $work/database
rand_serial = yes
unique_subject = no
default_md = sha256
policy = anything
[anything]
commonName = supplied
CONF
: > "$work/database"

request() { # NAME SUBJECT
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout "$work/$1.key" -out "$work/$1.csr"
}

sign() { # NAME EXTENSIONS, and who signs
    name=$1
    printf '%s\n' "$2" > "$work/$name.ext"
    shift 2
    openssl ca -batch -notext -config "$work/ca.conf" -startdate $FROM -enddate $UNTIL -in "$work/$name.csr" \
        -extfile "$work/$name.ext" -out "$work/$name.crt" "$@"
}

authority() { # NAME SUBJECT
    request "$1" "$2"
    sign "$1" "basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash" -selfsign -keyfile "$work/$1.key"
    cp "$work/$1.crt" "$1.pem"
}

signed() { # NAME SUBJECT EXTENSIONS
    request "$1" "$2"
    sign "$1" "$3
authorityKeyIdentifier=keyid" -cert ca.pem -keyfile "$work/ca.key"
    cat "$work/$1.key" "$work/$1.crt" > "$1.pem"
}

authority ca "insync tests"
authority stranger "insync tests, a stranger"
signed server localhost "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"
signed elsewhere elsewhere.test "subjectAltName=DNS:elsewhere.test"
signed client alice "extendedKeyUsage=clientAuth"
openssl pkcs8 -topk8 -v2 aes-256-cbc -passout "pass:open sesame" -in "$work/client.key" -out "$work/locked.key"
cat "$work/locked.key" "$work/client.crt" > client-locked.pem
