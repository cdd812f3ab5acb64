# Writes rings of one device each: swift-rings.py FOLDER KIND:PORT ...
# One process for all of them; the command-line tool takes three for each.

import os
import sys

from swift.common.ring import RingBuilder

folder, *rings = sys.argv[1:]
for ring in rings:
    kind, port = ring.split(":")
    builder = RingBuilder(part_power=4, replicas=1, min_part_hours=0)
    device = {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "disk", "weight": 1}
    builder.add_dev(device)
    builder.rebalance()
    builder.get_ring().save(os.path.join(folder, kind + ".ring.gz"))
