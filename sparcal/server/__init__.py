"""The web station: pages and a JSON API over the same `Station` and `Lot` that the command line uses.

The server process answers requests and never decodes an image; everything slow or risky (decode, check, calibrate,
score) is a job in the SQLite queue inside the station's folder, done by one worker process.
"""
