"""The reference codec: the literal implementation, against which the scanner is tested.

``codec`` reads a record in these steps: ``json_decoder`` decodes it; ``matching`` finds the values of all paths in one
pass along the trie that the scanner uses too; ``controls`` reads the noise key and the alpha; ``extraction`` and
``numbers`` read codes and numbers, and put placeholders in their place; the field policy (``pipeline.fields``) is
applied; ``template`` splits the record at its placeholders. When the batch is masked, ``template`` joins the record
with the text of each placeholder.
"""
