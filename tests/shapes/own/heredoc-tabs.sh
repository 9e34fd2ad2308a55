#!/bin/bash
cat > x.txt <<-END
	export KA=1
	END
export KA=2
srv
