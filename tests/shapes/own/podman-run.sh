#!/bin/bash
podman run -it --rm -eKA=1 -p 80:80 -v/a:/b --env KB="two words" img --ka 3
