cd /work/wt/audit
for i in $(seq $1); do /work/light timeout 280 .sequitur/venv/bin/python -m pytest -p no:cacheprovider -q tests/topology/faust/worker/test_lookup.py > /tmp/audit.$2.$i.log 2>&1; echo "$2.$i rc=$?" >> /tmp/audit.sum; done
