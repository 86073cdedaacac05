"""What tests share: waiting, streams and their oracle, sessions, damage, interruptions."""
