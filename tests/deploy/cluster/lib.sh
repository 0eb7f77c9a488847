# shellcheck shell=bash
# Helpers of run.sh: bounded commands, the state of the run, rows of the table.

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

refuse() {
    printf 'cluster-test: %s\n' "$*" >&2
    exit 2
}

# Run a command for at most so many seconds: within SECONDS COMMAND...
within() {
    local limit_s=$1
    shift
    timeout --kill-after=10 "$limit_s" "$@"
}

# Each tool has one name, so that no call of it lacks a limit.
k() { within "${K_LIMIT_S:-60}" kubectl --context "kind-$CLUSTER" --namespace "$NAMESPACE" "$@"; }
h() { within "${H_LIMIT_S:-900}" helm --kube-context "kind-$CLUSTER" --namespace "$NAMESPACE" "$@"; }
d() { within "${D_LIMIT_S:-300}" docker "$@"; }

# Poll until a command succeeds: until_true SECONDS WHAT COMMAND...
until_true() {
    local limit_s=$1 what=$2 started=$SECONDS
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS - started >= limit_s)); then
            say "waited $limit_s s for $what, and give up"
            return 1
        fi
        sleep "${POLL_S:-3}"
    done
}

# Print the five words of run_state.py;
# "unknown 0 0 0 0" without an answer.
run_state() {
    K_LIMIT_S=40 k exec --stdin "$TRAINER_POD" -- python - "$RUN" "$@" <"$HERE/run_state.py" \
        2>/dev/null || echo "unknown 0 0 0 0"
}

last_step() { run_state | cut -d' ' -f2; }

# Succeed once the run has done a step after this one.
has_passed() {
    local step
    step=$(last_step)
    ((step > $1))
}

trainer_node() { k get pod "$TRAINER_POD" --output 'jsonpath={.spec.nodeName}'; }

# Do something to the cluster in the middle of the run, and measure until the run goes further:
# disturb WHAT COMMAND...
disturb() {
    local what=$1 before again started outcome by="the trainer" _
    shift
    read -r outcome before again _ <<<"$(run_state)"
    [[ $outcome == running ]] || { say "the run is $outcome before: $what"; return 1; }
    started=$SECONDS
    say "$what, after step $before"
    "$@"
    if ! until_true "$ALONE_S" "the run after: $what" has_passed "$before"; then
        # The next trainer resumes a run whose process died. Where it does not, the table says so.
        run_state resume >/dev/null
        by="a request"
        until_true "$BACK_S" "the resumed run after: $what" has_passed "$before" || return 1
    fi
    local took=$((SECONDS - started)) repeated
    repeated=$(($(run_state | cut -d' ' -f3) - again))
    row "$what" "$before" "$took" "$repeated" "resumed by $by"
}

row() { printf '| %s | %s | %s | %s | %s |\n' "$@" >>"$ROWS"; }

# Put the rows between the marks of the page.
write_table() {
    local page=$1
    awk -v rows="$ROWS" '
        /<!-- cluster-test: rows -->/ { print; while ((getline line < rows) > 0) print line; skip = 1; next }
        /<!-- cluster-test: end -->/ { skip = 0 }
        !skip { print }
    ' "$page" >"$page.new"
    mv "$page.new" "$page"
}
