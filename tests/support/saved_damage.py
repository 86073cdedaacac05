"""Damage to saved files: what bytes a bad disk gives back."""

HARM = ("flipped", "zeroed", "cut off")


def harmed(data, how, at):
    """Return the bytes of a file with damage at a place."""
    if how == "flipped":
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
    if how == "zeroed":
        zeros = bytes(min(64, len(data) - at))
        return data[:at] + (zeros if data[at : at + 64] != zeros else b"\1" * len(zeros)) + data[at + 64 :]
    return data[:at]
