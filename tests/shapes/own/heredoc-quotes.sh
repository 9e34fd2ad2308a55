#!/bin/bash
cat > a.txt <<'EOF'
it's "odd
EOF
export KA=1
srv
