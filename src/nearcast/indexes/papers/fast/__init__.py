"""The index `fast`: keywords are treated by how frequent they are, cell by cell of a pyramid.

After FAST, Frequency-Aware Spatio-Textual indexing (Mahmood, Aly, Aref: ICDE 2018). The paper itself was not at hand:
what it does was taken from its summary and from the authors' published Java code; all code and data layouts here are
our own.

A pyramid of grids, the coarsest of one cell, the finest of `grid` by `grid` (512, as the authors), is kept in one hash
map from (cell, keyword). In a cell a keyword is rare, and then has a list of at most `threshold` atoms (5, as the
authors), or it is frequent, and then is the root of a trie over the words of atoms. An atom enters at the coarsest
cell. It goes into the list of its rarest keyword, by the number of all atoms with it; if that is full, into that of its
keyword with the shortest list; if none has room, its keywords become frequent, the atoms of their lists look for
another place, and it goes into the trie. A list in a trie that overflows becomes a node there. Where more than
`threshold` atoms with the same words are small in a cell, the half of them with the smallest overlap goes one level
down, into the cells they touch. Those wider than half a cell stay, and at the finest level all do. Cells of one parent
share a list for an atom in several of them. A message goes from the coarsest cell to the finest; only those of its
keywords that are frequent in a cell are looked up below it.

What differs from the authors' code, and why:

- Atoms can be removed, and so replaced. Each frequent keyword of a cell counts the atoms with it in tries of the cell
  and below it: it is frequent as long as there are any, for an atom below a cell needs all of its keywords looked up
  there. It also counts those below alone, and is not looked up further down if there are none. A node of a trie with
  few atoms left and no children becomes a list again. Atoms do not come back up one by one: when more than half are
  gone the index is built anew.
- Words in tries are ordered by how rare they were when the index was built, the rarest first, not by the alphabet:
  messages then visit the tries of their rarest words, which are the smallest.
- Half of the small atoms go down at `threshold`, where the code allows four times as many: that halved the number of
  entries looked at. A list in a trie becomes a node at four times `threshold`, in the code at `threshold`: entries
  stand side by side here, and to read some more is faster than to look up one more word. Height counts as well as
  width for what stays.
- A cell shares a list only where no other atom of it would then be in the cell twice, and no two lists are merged: so
  an atom has one place in a cell, and to remove it from there is to remove it.
- Cells are cut by steps of a frame around the finite coordinates there were when the index was built. The step of a
  coordinate never decreases with it, and what lies outside the frame is in the cells at its border: so nothing is
  missed, whatever the coordinates. An atom anywhere is in the coarsest cell. Range messages visit every cell that they
  touch.
- Atoms without a keyword, such as NOT spam, have one that every message has.
- An entry has its rectangle in steps, up to three words that its place does not tell, and its atom: 32 bytes that
  dismiss most atoms, and decide on most of those that hold, without a look at the atom itself. A message looks up all
  it can at once, because most of its time goes into waiting for memory.

Time: for each level and each keyword still needed there one look into the map, at most `threshold` entries for a rare
keyword, and for a frequent one the nodes of its trie that the message's words lead to. An atom is inserted in as many
looks as it has words, times the levels it goes down, times the cells it then touches. Space: 32 bytes for each entry,
with room to spare, 16 for each slot of the map, of which at most 60 % are taken, 64 for each node.
"""

from nearcast.indexes.papers.fast.index import FastIndex

__all__ = ["FastIndex"]
